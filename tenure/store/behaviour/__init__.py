"""What every store must do, said one promise at a time: a module per topic, a function per promise."""
