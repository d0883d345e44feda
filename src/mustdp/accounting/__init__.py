"""From a plan to certified bounds."""

#: Further values of ``account(method=...)`` that packages above this one add: by name, the function
#: ("package.module:name") that is imported when it is first asked for. It is called with the plan
#: and with ``relation``, ``accuracy`` and ``group`` as they were stated.
FURTHER_METHODS: dict[str, str] = {}
