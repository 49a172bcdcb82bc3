"""How exact fp16 operators are for inputs of any size: models, and the measurement."""
