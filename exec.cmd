@rem The shells of other systems have "exec" built in: there the scripts of package.json replace the shell of npm, so that a
@rem signal to npm reaches the program. Here this runs the program.
@%*
