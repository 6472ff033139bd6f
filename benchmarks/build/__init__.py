"""How long derivatives of long programs take to build: traced, differentiated, planned, compiled, run once."""
