//! The published analytical model (arXiv 2610.12242, appendix D) as an oracle for the simulator.
mod support;

use handoff_sim::policy::r2r;
use support::{Place, affine, assert_close, config, model, throughput};

/// Column `model` of the published threshold table: R2R at p = 0.35, step times 6.0 and 27.9 ms.
const THRESHOLD_TABLE: [(u32, u32, f64); 9] = [
    (2, 1, 99.0),
    (2, 2, 110.3),
    (3, 1, 142.3),
    (3, 2, 158.1),
    (3, 3, 151.9),
    (4, 1, 187.2),
    (4, 2, 195.4),
    (4, 3, 207.9),
    (4, 4, 190.7),
];

#[test]
fn all_nine_published_threshold_cells_are_met_within_half_a_per_cent() {
    for (concurrency, threshold, published) in THRESHOLD_TABLE {
        let models = vec![model("small", affine(6.0, 0.0), 1), model("large", affine(27.9, 0.0), threshold)];
        let config = config(r2r::new(0.35).unwrap(), models, Place::Two, concurrency);
        let estimate = throughput(&config, 10, 8, 100);
        println!("C = {concurrency}, B = {threshold}: {estimate:?} published {published}");
        assert!(2.0 * estimate.relative_half_width().unwrap() <= 0.005, "{estimate:?}");
        assert_close(estimate.mean, published, 0.005);
    }
}
