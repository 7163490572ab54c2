"""`speclocal models`: the catalogue, and what is on this disk."""

from typing import TYPE_CHECKING

from speclocal.terminal.app import MODELS, command
from speclocal.terminal.options import Options

if TYPE_CHECKING:
    from speclocal.terminal.render import View


@command(Options, MODELS)
def models(*, options: Options, view: "View") -> None:
    """List the models and pairs of the catalogue, and what is on this disk."""
    from speclocal.models.catalog import load_catalog
    from speclocal.models.sources import listing
    from speclocal.terminal.tables import listing_json, models_table, pairs_table

    catalog = load_catalog()
    listed = listing(catalog)
    if options.json:
        view.result(listing_json(listed))
        return
    view.tables(models_table(listed.models, catalog.default), pairs_table(listed.pairs))
