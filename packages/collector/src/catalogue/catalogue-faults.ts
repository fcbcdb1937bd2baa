/** What is wrong with a catalogue, for those who ask it. */

/** Why there is no catalogue to ask. */
export class CatalogueFault extends Error {
  override name = 'CatalogueFault';
}

/** The file holds what SQLite or the catalogue cannot have written. Rebuilt, it is right. */
export class CatalogueDamaged extends CatalogueFault {
  override name = 'CatalogueDamaged';
}

/** Another process is writing the catalogue. */
export class CatalogueBusy extends CatalogueFault {
  override name = 'CatalogueBusy';
}
