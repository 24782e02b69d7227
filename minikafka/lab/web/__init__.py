"""The lab in the browser: the same Python code, run by Pyodide, without a server behind it."""
