"""The web page over the gateway's JSON: the flow, topics, pipelines, views, groups and configuration."""
