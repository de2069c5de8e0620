"""Line-up blocks: the learner's role, its opponents, and where its games start."""
