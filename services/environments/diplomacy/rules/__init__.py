"""The rules as code: legal orders, order sheets and their defects, and the engine without repeated work."""
