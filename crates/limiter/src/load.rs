//! How loaded the system is, and whether elastic limits may be exceeded.
//!
//! Whoever measures load reports it to a [`LoadGauge`]: a push to the admin
//! listener, the host, the gateway's upstreams, other nodes. [`crate::Limiter`]
//! asks it for each charge of an elastic limit, and decides by the larger limit
//! where it may be exceeded. Page: `spec/load.md`.
//!
//! Invariants: the load of a domain is the largest of the sources for it and for
//! all domains; without any it is full. A source rises at once and falls with a
//! half-life of [`HALF_LIFE`]; one that was not heard of for [`SILENT_MAX`] of its
//! intervals is full. What was withdrawn at a mark is granted again only
//! [`HYSTERESIS_PERCENT`] points below it, and no rise in between goes unnoticed.
//!
//! Deliberately not here: measuring.
#![expect(
    clippy::float_arithmetic,
    reason = "a load is a measurement, and no store has to come to the same number"
)]

use parking_lot::Mutex;
use tollgate_core::rule::Elastic;
use tollgate_core::{Micros, Time};

/// In this time a source falls by half of the way to what it last reported.
pub const HALF_LIFE: Micros = Micros::from_secs(10);
/// Intervals without a report after which a source counts as full.
pub const SILENT_MAX: u64 = 3;
/// An allowance that was withdrawn comes back this far below its mark.
pub const HYSTERESIS_PERCENT: u32 = 10;
/// Sources beyond this are refused: whoever reports chooses their names.
pub const SOURCES_MAX: usize = 1_000;
/// Loads that differ by less are equal: halving in binary fractions is not exact.
const EQUAL: f64 = 1e-9;
/// Marks beyond this are forgotten and begin anew; rules have far fewer.
const MARKS_MAX: usize = 10_000;

/// A load from 0 (idle) to 1 (full).
///
/// ```
/// use tollgate_limiter::Load;
/// assert!(Load::new(0.4).is_some_and(|load| load < Load::FULL));
/// assert_eq!((Load::new(1.5), Load::new(f64::NAN)), (None, None));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Load(f64);

impl Load {
    /// Nothing to do.
    pub const IDLE: Self = Self(0.0);
    /// No resources are free.
    pub const FULL: Self = Self(1.0);

    /// The load of that number; none if it is not from 0 to 1.
    pub fn new(load: f64) -> Option<Self> {
        (0.0..=1.0).contains(&load).then_some(Self(load))
    }

    /// The nearest load to that number; full if it is none.
    pub fn clamped(load: f64) -> Self {
        if load.is_nan() { Self::FULL } else { Self(load.clamp(0.0, 1.0)) }
    }

    /// The load of so many percent, full above 100.
    pub fn percent(percent: u32) -> Self {
        Self::clamped(f64::from(percent) / 100.0)
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// The larger of two.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other.0 > self.0 { other } else { self }
    }
}

/// Who reports, and about which domain; none for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadSource<'a> {
    /// Its name.
    pub name: &'a str,
    /// The domain.
    pub domain: Option<&'a str>,
}

/// What a source says.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadReading {
    /// The name of the source.
    pub source: String,
    /// The domain that it is about; none for all of them.
    pub domain: Option<String>,
    /// What it last reported.
    pub reported: Load,
    /// What it counts as now.
    pub load: Load,
    /// How long ago it reported.
    pub age: Micros,
    /// It was not heard of for too long.
    pub is_silent: bool,
}

/// There is no room for a further source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are {SOURCES_MAX} sources of load already; report under the name of one of them")]
pub struct TooManySources;

/// The load of the system, and who may exceed limits for it.
///
/// ```
/// use tollgate_core::{Micros, Time};
/// use tollgate_limiter::{Load, LoadGauge, LoadSource};
/// let gauge = LoadGauge::default();
/// assert_eq!(gauge.load("shop", Time::EPOCH), Load::FULL, "nobody has said that anything is free");
/// let host = LoadSource { name: "host", domain: None };
/// gauge.report(host, Load::percent(40), Micros::SECOND, Time::EPOCH)?;
/// assert_eq!(gauge.load("shop", Time::EPOCH), Load::percent(40));
/// assert_eq!(gauge.load("shop", Time::from_secs(4)), Load::FULL, "it has gone silent");
/// # Ok::<(), tollgate_limiter::load::TooManySources>(())
/// ```
#[derive(Debug, Default)]
pub struct LoadGauge {
    state: Mutex<GaugeState>,
}

#[derive(Debug, Default)]
struct GaugeState {
    sources: Vec<SourceState>,
    marks: Vec<MarkState>,
}

#[derive(Debug)]
struct SourceState {
    name: String,
    domain: Option<String>,
    reported: Load,
    /// What it counted as when it reported.
    peak: Load,
    at: Time,
    interval: Micros,
}

/// Whether limits of a domain with this mark may be exceeded.
#[derive(Debug)]
struct MarkState {
    domain: String,
    below_percent: u32,
    is_granted: bool,
}

impl LoadGauge {
    /// Notes what a source reports, which does so once in every `interval`.
    ///
    /// # Errors
    /// If there are too many sources.
    pub fn report(
        &self,
        source: LoadSource<'_>,
        load: Load,
        interval: Micros,
        now: Time,
    ) -> Result<(), TooManySources> {
        let mut state = self.state.lock();
        // What has become of the marks until now, a source that went silent included.
        state.update_marks(now);
        let room = state.sources.len() < SOURCES_MAX;
        match state.sources.iter_mut().find(|known| known.is(source)) {
            Some(known) => known.report(load, interval, now),
            None if !room => return Err(TooManySources),
            None => state.sources.push(SourceState {
                name: source.name.to_owned(),
                domain: source.domain.map(str::to_owned),
                reported: load,
                peak: load,
                at: now,
                interval,
            }),
        }
        state.update_marks(now);
        Ok(())
    }

    /// Forgets a source; whether there was one.
    pub fn forget(&self, source: LoadSource<'_>, now: Time) -> bool {
        let mut state = self.state.lock();
        state.update_marks(now);
        let before = state.sources.len();
        state.sources.retain(|known| !known.is(source));
        state.sources.len() < before
    }

    /// The load of a domain.
    pub fn load(&self, domain: &str, now: Time) -> Load {
        self.state.lock().load(domain, now)
    }

    /// Whether an elastic limit of a domain may be exceeded.
    pub fn may_exceed(&self, domain: &str, elastic: &Elastic, now: Time) -> bool {
        let mut state = self.state.lock();
        let below_percent = elastic.below_load_percent;
        let load = state.load(domain, now);
        let known = |mark: &&mut MarkState| mark.below_percent == below_percent && mark.domain == domain;
        if let Some(mark) = state.marks.iter_mut().find(known) {
            mark.update(load);
            return mark.is_granted;
        }
        if state.marks.len() >= MARKS_MAX {
            state.marks.clear();
        }
        let mut mark = MarkState { domain: domain.to_owned(), below_percent, is_granted: false };
        mark.update(load);
        let is_granted = mark.is_granted;
        state.marks.push(mark);
        is_granted
    }

    /// What each source says, in the order in which they were first heard of.
    pub fn readings(&self, now: Time) -> Vec<LoadReading> {
        let state = self.state.lock();
        let reading = |source: &SourceState| LoadReading {
            source: source.name.clone(),
            domain: source.domain.clone(),
            reported: source.reported,
            load: source.load(now),
            age: now.since(source.at),
            is_silent: source.is_silent(now),
        };
        state.sources.iter().map(reading).collect()
    }
}

impl GaugeState {
    fn load(&self, domain: &str, now: Time) -> Load {
        let about = self.sources.iter().filter(|source| source.is_about(domain));
        about.map(|source| source.load(now)).reduce(Load::max).unwrap_or(Load::FULL)
    }

    fn update_marks(&mut self, now: Time) {
        let mut marks = std::mem::take(&mut self.marks);
        for mark in &mut marks {
            mark.update(self.load(&mark.domain, now));
        }
        self.marks = marks;
    }
}

impl SourceState {
    fn is(&self, source: LoadSource<'_>) -> bool {
        self.name == source.name && self.domain.as_deref() == source.domain
    }

    fn is_about(&self, domain: &str) -> bool {
        self.domain.as_deref().is_none_or(|own| own == domain)
    }

    fn is_silent(&self, now: Time) -> bool {
        now.since(self.at) >= self.interval.times(SILENT_MAX)
    }

    fn report(&mut self, load: Load, interval: Micros, now: Time) {
        self.peak = self.load(now).max(load);
        (self.reported, self.at, self.interval) = (load, now.max(self.at), interval);
    }

    fn load(&self, now: Time) -> Load {
        if self.is_silent(now) {
            return Load::FULL;
        }
        let half_lives = seconds(now.since(self.at)) / seconds(HALF_LIFE);
        let (from, to) = (self.peak.0, self.reported.0);
        Load::clamped(to + (from - to) * (-half_lives).exp2())
    }
}

impl MarkState {
    fn update(&mut self, load: Load) {
        let mark = Load::percent(self.below_percent);
        let again = Load::percent(self.below_percent.saturating_sub(HYSTERESIS_PERCENT));
        self.is_granted = match self.is_granted {
            true => load.0 < mark.0 - EQUAL,
            false => load.0 <= again.0 + EQUAL,
        };
    }
}

fn seconds(span: Micros) -> f64 {
    std::time::Duration::from(span).as_secs_f64()
}
