@rem The scripts of package.json use "exec", so that a signal to npm reaches the program. Windows has no "exec"; this file
@rem runs the program instead.
@%*
