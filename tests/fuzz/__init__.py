"""A fuzzer of everything that Entente reads: hostile input is answered by one line, or it is usable.

``contract`` says what a kind of input is and judges each case; ``mutations`` has changes that fit any document. Each
further module with a ``KIND`` holds one kind of input. ``tests/system/hostile_inputs`` runs a few cases of each, and
``tests/soak/test_hostile_inputs.py`` thousands in processes that can be killed. What it finds becomes a test of its
own beside the code that failed.
"""
