"""The problems of ADBench: objectives from their definitions, data, and gradients per call against others."""
