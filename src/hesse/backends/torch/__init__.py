"""PyTorch: kernels and programs on its tensors. Imported only when they are used."""
