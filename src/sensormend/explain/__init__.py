"""Why a reading has its flag: one paragraph with its numbers and the sensors that contradict it."""
