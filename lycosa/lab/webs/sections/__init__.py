"""Sections: directories of oddities, one module each. A section is a function that writes into a
sheet."""
