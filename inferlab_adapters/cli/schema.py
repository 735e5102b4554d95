"""``oe schema``: the JSON Schemas of what goes in and out."""

from __future__ import annotations

import click

from inferlab_adapters.cli.output import print_json


@click.group("schema")
def command() -> None:
    """Print the JSON Schema of the wire protocol or of deployment files.

    \b
    Examples:
      oe schema deployment > deployment.schema.json
      oe schema wire | jq '."$defs" | keys'
    """


@command.command("wire")
def wire() -> None:
    """Print the schema of requests and responses of the adapters, protocol version 6.

    \b
    Examples:
      oe schema wire > adapter-protocol-v6.schema.json
    """
    from inferlab_adapters.schema_file import wire_schema

    click.echo(wire_schema(), nl=False)


@command.command("deployment")
def deployment() -> None:
    """Print the schema of deployment files, for editors that complete by it.

    \b
    Examples:
      oe schema deployment > deployment.schema.json
    """
    from inferlab_adapters.control.deployment_file import schema

    print_json(schema())
