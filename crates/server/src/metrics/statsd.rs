//! Lines for `StatsD` and `DogStatsD`.
