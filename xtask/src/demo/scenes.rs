//! The scenes, in the order in which they are played.

use super::{DemoError, Play, Scene};

/// All scenes.
pub const SCENES: &[Scene] = &[Scene { title: "The programs", play: programs }];

/// What was built, by its own word.
fn programs(play: &Play) -> Result<(), DemoError> {
    for program in ["gnt", "masterd", "noded"] {
        play.show(program, &["--version"])?;
    }
    Ok(())
}
