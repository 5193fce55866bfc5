//! Rows of what agents have files of.

use std::sync::Arc;

use luxi::query::Filter;
use model::asset::Asset;
use model::image::Image;

use super::LuxiService;
use crate::machines::asset::fields::AssetRow;
use crate::machines::image::fields::ImageRow;
use crate::units::list as query;

impl LuxiService {
    pub(super) fn image_rows(&self, filter: Option<&Filter>) -> Vec<ImageRow> {
        let config = self.sources.published.snapshot().config;
        let row = |image: &Arc<Image>| {
            let blobs: Vec<_> = image.files.blobs().collect();
            ImageRow {
                image: Arc::clone(image),
                config: Arc::clone(&config),
                held_by: self.sources.contacts.with_blobs(&blobs),
            }
        };
        match filter.and_then(|filter| query::by_key(&config.images, filter, "image")) {
            Some(images) => images.into_iter().map(row).collect(),
            None => config.images.values().map(row).collect(),
        }
    }

    pub(super) fn asset_rows(&self, filter: Option<&Filter>) -> Vec<AssetRow> {
        let config = self.sources.published.snapshot().config;
        let row = |asset: &Arc<Asset>| AssetRow {
            asset: Arc::clone(asset),
            held_by: self.sources.contacts.with_blobs(&[asset.blob]),
        };
        match filter.and_then(|filter| query::by_key(&config.assets, filter, "name")) {
            Some(assets) => assets.into_iter().map(row).collect(),
            None => config.assets.values().map(row).collect(),
        }
    }
}
