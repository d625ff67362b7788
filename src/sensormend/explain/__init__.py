"""`explain` says why a reading has its flag: one paragraph with numbers and the sensors that contradict it."""
