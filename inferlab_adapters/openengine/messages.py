"""Messages of any revision from plain data, for callers that have no generated classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from inferlab_adapters.openengine import structs
from inferlab_adapters.openengine.revisions import MessageClass

STRUCT = "google.protobuf.Struct"


def build(kind: MessageClass, data: Mapping[str, Any]) -> Any:
    """A message with the fields of ``data``, and with no others.

    Values are what Python has for the field: numbers, str, bytes, a list, a mapping for a message
    (an empty one makes it present) or a Struct, the name or number of an enum value. A field that
    is named is present, whatever its value; one whose value is None is left out. Raises KeyError
    for a field that the message has not, ValueError or TypeError for a value that does not fit.
    """
    message = kind()
    _fill(message, data)
    return message


def _fill(message: Any, data: Mapping[str, Any]) -> None:
    described: Descriptor = message.DESCRIPTOR
    for name, value in data.items():
        field = described.fields_by_name.get(name)
        if field is None:
            raise KeyError(f"{described.full_name} has no field {name}")
        if value is None:
            continue
        target = getattr(message, name)
        if isinstance(target, Message):
            _fill_message(target, value)
        elif hasattr(target, "update"):
            target.update(value)
        elif hasattr(target, "extend"):
            _extend(target, field, value)
        else:
            setattr(message, name, _scalar(field, value))


def _extend(target: Any, field: FieldDescriptor, values: Any) -> None:
    if field.message_type is None:
        target.extend([_scalar(field, value) for value in values])
        return
    for value in values:
        _fill_message(target.add(), value)


def _fill_message(target: Any, value: Any) -> None:
    if not isinstance(value, Mapping):
        target.CopyFrom(value)
    elif target.DESCRIPTOR.full_name == STRUCT:
        structs.fill(target, value)
    else:
        target.SetInParent()
        _fill(target, value)


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        found = field.enum_type.values_by_name.get(value)
        if found is None:
            raise ValueError(f"{field.enum_type.full_name} has no value {value}")
        return found.number
    return value
