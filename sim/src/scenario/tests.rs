//! Tests of the whole way from text to scenario.

mod accepted;
mod any_input;
mod overrides;
mod refused;

use super::*;

/// The scenario of the documentation, with every section.
const EXAMPLE: &str = include_str!("tests/example.toml");

/// A profile in which `m` and `n` were measured on H200, alone and side by side, with router and host rows.
const PROFILE: &str = include_str!("tests/profile.csv");

/// Files that the scenarios of these tests name.
fn files() -> Embedded {
    const FILES: &[(&str, &[u8])] = &[
        ("profile.csv", PROFILE.as_bytes()),
        ("broken.csv", b"not,a,profile\n1,2,3\n"),
        ("lengths.csv", b"prompt_tokens,output_tokens\n10,20\n30,40\n"),
        ("arrivals.csv", b"arrival_s\n0.0\n0.5\n2.0\n"),
        (
            "routes.csv",
            b"request,step,model,destination,committed,entropy\n0,0,0,1,false,0.3\n0,1,1,0,true,\n1,0,0,stay,true,\n",
        ),
    ];
    Embedded::new(FILES)
}

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(&Source::new("scenario.toml", text), &files())
}

fn parse_with_sets(text: &str, sets: &[&str]) -> Result<Scenario, ScenarioError> {
    let source = sets.iter().try_fold(Source::new("scenario.toml", text), |source, set| source.with_set(set))?;
    Scenario::parse(&source, &files())
}
