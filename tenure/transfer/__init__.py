"""Jobs from one store to another, or to files and back, with everything that there is to say of them."""
