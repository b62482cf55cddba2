//! What is wrong with the settings, and what is only odd.

use std::fmt;

use tollgate_yaml::Problem;

/// Something to tell once at start-up; the server runs all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// What is said, on one line.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// One thing that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The flag, the variable, or the place in the file.
    pub place: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl From<Problem> for Mistake {
    fn from(problem: Problem) -> Self {
        let place = problem.place();
        let Problem { message, help, .. } = problem;
        let message = if help.is_empty() { message } else { format!("{message}; {help}") };
        Self { place, message }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// All that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SettingsError {
    /// At least one.
    pub mistakes: Vec<Mistake>,
}

/// One line each.
impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{mistake}")?;
        }
        Ok(())
    }
}
