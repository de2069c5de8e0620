"""The generator of word problems: ten families, each with five difficulties."""
