"""A learner of several processes: rank 0 is the ``LearnerWorker``, the others are its peers.

Rank 0 alone reads the replay buffer and writes files. Before each exchange of weights or gradients it calls the same
method on every peer through Ray; the exchange itself goes through ``torch.distributed``. The loss of any process ends
the learner, and the run starts it again from its last checkpoint.
"""
