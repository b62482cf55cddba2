-- At most L in any trailing window, exactly. Twin: algorithm/sliding_log.rs.
-- The caller gives a tick of one microsecond.

local sliding_log = window_log
