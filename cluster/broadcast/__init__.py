"""Weights to many nodes: in chunks, down a tree of the nodes, each chunk checked.

Ray's object store sends an object to a node once, however many actors there ask for it, and from any node that has all
of it. When many nodes ask at the same time, only the learner's node has it, and sends it to each of them. Here a node
passes each chunk on as soon as it has it, to at most ``plan.FAN_OUT`` others, and so does the learner's node.

Up to ``plan.FAN_OUT`` nodes beside the learner's, and weights of one chunk (adapters, as a rule), go the plain way.
"""
