//! Values of several turns, by case and name, in the order in which they came.

use anyhow::{Context as _, Result};

use crate::figures::{ratio, two_places};

/// The values of one name in one case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples(Vec<u64>);

impl Samples {
    /// One more.
    pub fn add(&mut self, value: u64) {
        self.0.push(value);
    }

    /// The middle one; 0 if there is none.
    pub fn median(&self) -> u64 {
        let [_, median, _] = quartiles(self.0.clone());
        median
    }

    /// The smallest and the largest.
    pub fn spread(&self) -> (u64, u64) {
        let ends = self.0.iter().min().zip(self.0.iter().max());
        ends.map_or((0, 0), |(least, most)| (*least, *most))
    }

    /// By how much each lies above that of the same turn of another: the quartiles. A machine that is slow for some
    /// turns is slow for both, so that this is steadier than the difference of two medians.
    pub fn quartiles_above(&self, other: &Self) -> [i64; 3] {
        quartiles(
            self.turns_with(other).map(|(own, other)| own.cast_signed() - other.cast_signed()).collect(),
        )
    }

    /// How many times that of the same turn of another, in hundredths: the middle one, for the same reason.
    pub fn median_ratio(&self, other: &Self) -> u64 {
        let [_, median, _] =
            quartiles(self.turns_with(other).map(|(own, other)| ratio(own, other)).collect());
        median
    }

    fn turns_with(&self, other: &Self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().copied().zip(other.0.iter().copied())
    }

    /// Half of what the half of the turns in the middle lies apart, in hundredths of the median. Of three turns it
    /// is all of them.
    pub fn spread_percent(&self) -> u64 {
        let [low, median, high] = quartiles(self.0.clone());
        ratio((high - low) / 2, median)
    }
}

/// The value that a quarter of all are below, the middle one, and the one that a quarter are above; 0 if there are
/// none.
fn quartiles<V: Ord + Copy + Default>(mut values: Vec<V>) -> [V; 3] {
    values.sort_unstable();
    [1, 2, 3].map(|quarter| values.get(values.len() * quarter / 4).copied().unwrap_or_default())
}

/// Samples by case and name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampleSet(Vec<(String, Vec<(String, Samples)>)>);

impl SampleSet {
    /// Reads lines of case, name and value with tabs between.
    ///
    /// # Errors
    /// If a line is none of that form.
    pub fn parse(text: &str) -> Result<Self> {
        let mut set = Self::default();
        for line in text.lines() {
            let mut words = line.split('\t');
            let read = words.next().zip(words.next()).zip(words.next().and_then(|value| value.parse().ok()));
            let ((case, name), value) = read.with_context(|| format!("'{line}' is no sample"))?;
            set.add(case, name, value);
        }
        Ok(set)
    }

    /// Adds a sample.
    pub fn add(&mut self, case: &str, name: &str, value: u64) {
        let names = entry(&mut self.0, case);
        entry(names, name).add(value);
    }

    /// Cases with their names and samples.
    pub fn cases(&self) -> impl Iterator<Item = (&str, &[(String, Samples)])> {
        self.0.iter().map(|(case, names)| (case.as_str(), names.as_slice()))
    }

    /// The samples of a case.
    pub fn case(&self, case: &str) -> &[(String, Samples)] {
        self.0.iter().find(|(other, _)| other == case).map_or(&[], |(_, names)| names)
    }
}

/// What stands under a name, made if there is nothing.
fn entry<'a, V: Default>(list: &'a mut Vec<(String, V)>, name: &str) -> &'a mut V {
    let at = list.iter().position(|(other, _)| other == name).unwrap_or(list.len());
    if at == list.len() {
        list.push((name.to_owned(), V::default()));
    }
    let (_, value) = list.get_mut(at).expect("it is there, or was just put there");
    value
}

/// Tenths as people read them: whole numbers from 100 on.
pub fn tenths(value: u64) -> String {
    if value >= 1_000 { (value / 10).to_string() } else { format!("{}.{}", value / 10, value % 10) }
}

/// Hundredths as a factor.
pub fn times(hundredths: u64) -> String {
    format!("{}×", two_places(hundredths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_grouped_by_case_and_name_in_their_order() {
        let set = SampleSet::parse("hot\tb\t30\nhot\ta\t7\nhot\tb\t10\nhot\tb\t20\ncold\ta\t1").unwrap();
        let [(name, samples), _] = set.case("hot") else { panic!("two names") };
        assert_eq!((name.as_str(), samples.median(), samples.spread()), ("b", 20, (10, 30)));
        assert_eq!(samples.spread_percent(), 50);
        assert_eq!(set.cases().map(|(case, _)| case).collect::<Vec<_>>(), ["hot", "cold"]);
        assert!(SampleSet::parse("hot\tb").is_err());
    }

    #[test]
    fn turns_are_compared_one_by_one() {
        let samples = |values: [u64; 5]| Samples(values.to_vec());
        let (own, other) = (samples([10, 120, 30, 41, 15]), samples([7, 100, 31, 40, 15]));
        assert_eq!(own.quartiles_above(&other), [0, 1, 3]);
        assert_eq!((own.median(), own.spread()), (30, (10, 120)));
        assert_eq!(Samples::default().quartiles_above(&other), [0; 3]);
        assert_eq!((own.median_ratio(&other), other.median_ratio(&own)), (103, 98));
        assert_eq!(own.spread_percent(), 43, "from 15 to 41, around 30");
    }

    #[test]
    fn tenths_and_ratios_read_well() {
        assert_eq!([123, 1_234].map(tenths), ["12.3", "123"]);
        assert_eq!(times(250), "2.50×");
    }
}
