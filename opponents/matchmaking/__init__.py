"""Line-up blocks: the learner's country and its opponents."""
