//! The blocks of the NICs of hw-model's tests: the memory translation table is the one in RTL.

use ferroce_model::Blocks;
use ferroce_rtl::mtt::Mtt;

/// The blocks of the tests' NICs.
#[derive(Debug)]
pub struct TestBlocks;

impl Blocks for TestBlocks {
    type Mtt = Mtt;
}
