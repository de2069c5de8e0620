"use strict";
// Means over the samples of other episodes, because the turns of one are correlated, and counts of episodes.

// A number for each pair of a group (``labels``, whole numbers from 0) and an episode (``owners``, which ascend).
function partsOf(labels, owners) {
  const lastOwner = []; // of each group so far
  const lastPart = [];
  let parts = 0;
  return labels.map((label, sample) => {
    if (lastOwner[label] !== owners[sample]) {
      lastOwner[label] = owners[sample];
      lastPart[label] = parts;
      parts += 1;
    }
    return lastPart[label];
  });
}

// Each sample's mean over its group's samples from other episodes, and their number. The mean is 0 if there are none.
function meansOfOtherEpisodes(values, labels, owners) {
  const parts = partsOf(labels, owners);
  const [groupCounts, partCounts] = [countsByLabel(labels), countsByLabel(parts)];
  const [groupSums, partSums] = [sumsByLabel(labels, values), sumsByLabel(parts, values)];
  const counts = labels.map((label, sample) => groupCounts[label] - partCounts[parts[sample]]);
  const means = labels.map((label, sample) => {
    return counts[sample] > 0 ? (groupSums[label] - partSums[parts[sample]]) / counts[sample] : 0;
  });
  return { means, counts };
}

// The number of episodes in each sample's group, its own included.
function episodesInGroup(labels, owners) {
  const groupOfPart = [];
  partsOf(labels, owners).forEach((part, sample) => (groupOfPart[part] = labels[sample]));
  const counts = countsByLabel(groupOfPart);
  return labels.map((label) => counts[label]);
}
