-- Never more than L in any trailing window, by sub-windows. Twin: algorithm/sliding_buckets.rs.
-- The caller gives a tick of one sub-window.

local sliding_buckets = window_log
