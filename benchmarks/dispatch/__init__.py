"""The router: beside other systems' laws by name, on the same traces and the same engines."""
