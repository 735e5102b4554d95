"""The one wire type no model can spell: JSON without null, integers kept apart from floats.

A union of strict types would answer one fault with six errors and let an integer too wide for
64 bits through as a float. One function does better, and no schema is built for it.
"""

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
INFINITE = float("inf")


def check(value: Any) -> Any:
    """Return the value itself, or raise one error whose context says where and why.

    `path` holds the keys and indices from the setting down to the fault, `reason` the fault.
    """
    fault = find_fault(value)
    if fault is not None:
        path, reason = fault
        raise PydanticCustomError("setting_value", "{reason}", {"path": path, "reason": reason})
    return value


def find_fault(value: Any) -> tuple[tuple[str | int, ...], str] | None:
    kind = type(value)
    if kind is str:
        return None if well_formed(value) else ((), "is not valid Unicode")
    if kind is bool:
        return None
    if kind is int:
        return None if INT_MIN <= value <= INT_MAX else ((), "does not fit in 64 signed bits")
    if kind is float:
        return None if -INFINITE < value < INFINITE else ((), "is not a finite number")
    if kind is list:
        return first_fault(enumerate(value))
    if kind is dict:
        for key in value:
            if type(key) is not str or not well_formed(key):
                return (), "has a key that is not valid Unicode"
        return first_fault(value.items())
    if value is None:
        return (), "null is not allowed in settings"
    return (), f"is not JSON but {kind.__name__}"


def first_fault(items: Any) -> tuple[tuple[str | int, ...], str] | None:
    for key, value in items:
        fault = find_fault(value)
        if fault is not None:
            path, reason = fault
            return (key, *path), reason
    return None


def well_formed(text: str) -> bool:
    """Whether the text has no lone surrogate, which JSON escapes can smuggle in."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return True


if TYPE_CHECKING:
    SettingValue: TypeAlias = (
        "bool | int | float | str | list[SettingValue] | dict[str, SettingValue]"
    )
else:

    class _Checked:
        @staticmethod
        def __get_pydantic_core_schema__(source: Any, handler: Any) -> CoreSchema:
            return core_schema.no_info_plain_validator_function(check)

    SettingValue = Annotated[Any, _Checked]
