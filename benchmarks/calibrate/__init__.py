"""The records of the back ends, measured on this machine: what their fields should be here."""
