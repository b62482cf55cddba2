//! What was decided, over time.
//!
//! Invariant: at most [`POINTS_MAX`] points; when there would be more, two become one, so that a curve of
//! any length takes the same memory.

use tollgate_core::{Micros, Time};

use crate::report::CurvePoint;

/// Enough for the width of a page.
const POINTS_MAX: usize = 480;

/// Counts per step of time.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    start: Option<Time>,
    step: Micros,
    points: Vec<CurveCounts>,
}

/// The counts of one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CurveCounts {
    pub(crate) requests: u64,
    pub(crate) denied: u64,
    pub(crate) delayed: u64,
}

impl Default for Curve {
    fn default() -> Self {
        Self { start: None, step: Micros::from_secs(1), points: Vec::new() }
    }
}

impl Curve {
    /// Counts at an instant. Instants come in order.
    pub(crate) fn add(&mut self, time: Time, counts: CurveCounts) {
        let start = *self.start.get_or_insert(time);
        let mut place = self.place(start, time);
        while place >= POINTS_MAX {
            self.halve();
            place = self.place(start, time);
        }
        if self.points.len() <= place {
            self.points.resize(place + 1, CurveCounts::default());
        }
        if let Some(point) = self.points.get_mut(place) {
            point.requests += counts.requests;
            point.denied += counts.denied;
            point.delayed += counts.delayed;
        }
    }

    fn place(&self, start: Time, time: Time) -> usize {
        usize::try_from(time.since(start).get() / self.step.get()).unwrap_or(usize::MAX)
    }

    fn halve(&mut self) {
        self.step = self.step.times(2);
        let merge = |pair: &[CurveCounts]| {
            pair.iter().fold(CurveCounts::default(), |sum, one| CurveCounts {
                requests: sum.requests + one.requests,
                denied: sum.denied + one.denied,
                delayed: sum.delayed + one.delayed,
            })
        };
        self.points = self.points.chunks(2).map(merge).collect();
    }

    /// The length of a step.
    pub(crate) const fn step(&self) -> Micros {
        self.step
    }

    /// The points, as programs read them.
    pub(crate) fn report(&self) -> Vec<CurvePoint> {
        let point = |(at, CurveCounts { requests, denied, delayed }): (Time, CurveCounts)| CurvePoint {
            at: at.get() / 1_000_000,
            requests,
            denied,
            delayed,
        };
        self.points().map(point).collect()
    }

    /// The points with their times.
    fn points(&self) -> impl Iterator<Item = (Time, CurveCounts)> {
        let (start, step) = (self.start.unwrap_or_default().get(), self.step.get());
        (0_u64..).zip(&self.points).map(move |(place, counts)| (Time::new(start + place * step), *counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_curve_keeps_every_request_in_few_points() {
        let mut curve = Curve::default();
        for second in 0..10_000 {
            let counts = CurveCounts { requests: 2, denied: 1, delayed: 0 };
            curve.add(Time::from_secs(1_000_000 + second), counts);
        }
        let points: Vec<_> = curve.points().collect();
        assert!((POINTS_MAX / 2..=POINTS_MAX).contains(&points.len()), "{}", points.len());
        assert_eq!(points.iter().map(|(_, counts)| counts.requests).sum::<u64>(), 20_000);
        assert_eq!(curve.step(), Micros::from_secs(32));
        assert_eq!(points[1].0, Time::from_secs(1_000_032));
        assert_eq!(points[1].1.denied, 32);
    }
}
