"""Line-up blocks: which country learns, and which opponents it meets."""
