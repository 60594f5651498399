use super::system::System;
use super::*;
use crate::scenario::{Embedded, Source};

fn scenario(text: &str) -> Scenario {
    Scenario::parse(&Source::new("test.toml", text), &Embedded::default()).unwrap()
}

/// Under the R2R law the small model decodes, and the large one extends over 1/p tokens: those of the small model since its last visit and its own.
#[test]
fn the_mean_shape_of_an_extend_is_that_of_the_law() {
    let text = "[workload]\nprompt_tokens = 100\noutput_tokens = 1000\n[[model]]\ncost = { affine = { per_new_token_ms = 1.0 } }\n[[model]]\ncost = { affine = { per_new_token_ms = 1.0 } }\n\
                [policy]\nkind = \"r2r\"\np = 0.1\n";
    let scenario = scenario(text);
    let system = System::of(&scenario).unwrap();
    assert!((system.step_s(0, 3) - 3e-3).abs() < 1e-12);
    assert!((system.step_s(1, 2) - 20e-3).abs() < 1e-12);
    assert!((system.decode_s(1, 2) - 2e-3).abs() < 1e-12);
    assert!((system.affine(1).0.per_row_s - 10e-3).abs() < 1e-9 && system.affine(1).1);
}

#[test]
fn methods_have_names() {
    for method in Method::ALL {
        assert_eq!(method.as_str().parse(), Ok(method));
    }
    assert_eq!(
        "exakt".parse::<Method>().unwrap_err().to_string(),
        "no method `exakt`, expected one of `exact`, `mean-field`, `simulate`"
    );
}
