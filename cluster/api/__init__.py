"""The functions of ``import entente``; the command line calls the same ones, or what lies below them."""
