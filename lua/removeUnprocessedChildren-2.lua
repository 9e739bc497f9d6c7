-- removeUnprocessedChildren-2 · removes all children of a job that have not run
-- KEYS[1] job   hash  <prefix>:<queue>:<id>
-- KEYS[2] meta  hash  unused
-- ARGV[1] prefix  text  unused
-- ARGV[2] id      text  unused
-- Reply   nil
-- Event   see removeChildren; children being processed or failed stay
-- Spec    protocol 03 3.13                     Frozen  manifest.toml
--@include removeChildren
removeChildren(KEYS[1], true, true, true)
