"""The speed table: hesse, closed forms and other libraries on the same problems."""
