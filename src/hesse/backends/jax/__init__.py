"""JAX: kernels and programs on its arrays. Imported only when they are used."""
