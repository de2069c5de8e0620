"""Charts in SVG, made in the browser."""
