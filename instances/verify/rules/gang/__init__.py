"""Rules of every plan that places gangs."""
