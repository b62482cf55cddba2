//! The word that a misspelled one was meant to be.

/// The candidate that `word` is probably a misspelling of: at most one letter
/// in three added, dropped, changed or swapped with its neighbour. Capital
/// letters make no difference.
///
/// ```
/// assert_eq!(tollgate_yaml::nearest("shpo", ["mail", "shop"]), Some("shop"));
/// assert_eq!(tollgate_yaml::nearest("warehouse", ["mail", "shop"]), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = word.chars().count();
    let distance = |candidate: &'a str| {
        let length = candidate.chars().count();
        // Too long or too short by itself; a word from a file may be huge.
        if length.abs_diff(letters) * 3 > length {
            return None;
        }
        let distance = strsim::osa_distance(&word.to_lowercase(), &candidate.to_lowercase());
        (distance * 3 <= length).then_some((distance, candidate))
    };
    let found = candidates.into_iter().filter_map(distance).min_by_key(|(distance, _)| *distance);
    found.map(|(_, candidate)| candidate)
}

/// `write a, b or c`.
pub fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    match words.as_slice() {
        [one] => format!("write {one}"),
        [first @ .., last] => format!("write {} or {last}", first.join(", ")),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_word_finds_its_neighbour_and_a_strange_one_none() {
        let words = ["unit", "requests_per_unit", "name"];
        let cases = [
            ("uint", Some("unit")),
            ("Unit", Some("unit")),
            ("request_per_unt", Some("requests_per_unit")),
            ("nam", Some("name")),
            ("colour", None),
            ("", None),
        ];
        for (word, meant) in cases {
            assert_eq!(nearest(word, words), meant, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1_000_000), words), None);
        assert_eq!(nearest("Größe", ["größe"]), Some("größe"));
    }

    #[test]
    fn words_to_choose_from_are_joined_as_in_a_sentence() {
        assert_eq!(one_of(["a"]), "write a");
        assert_eq!(one_of(["a", "b", "c"]), "write a, b or c");
        assert_eq!(one_of([]), "");
    }
}
