"""One param.Parameterized class per page: parameters, presets, tidy results. No Panel."""
