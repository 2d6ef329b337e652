"""Changed pipelines: resume, rebuild or drop.

* ``changed_pipelines``: finds changed pipelines before any query starts
* ``fingerprint``: the fingerprint of a pipeline in its checkpoint
* ``plan_text``: a logical plan as stable text
* ``rebuilding``: derives a topic again and makes the old one equal
* ``topic_difference``: the appends that make one topic equal to another
* ``dropping``: drops a pipeline
"""
