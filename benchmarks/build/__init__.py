"""How long derivatives of long programs take to build, from the first traced line to the first result."""
