"""Flights out of New York: five topics, three pipelines, five views. Run it with: mainstem run examples/flights.py"""

from pyspark.sql.functions import avg, count

import mainstem as ms

app = ms.App("flights")

flights = app.topic(
    "flights",
    schema="""flight_id STRING NOT NULL, year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT,
              arr_time INT, sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING,
              origin STRING, dest STRING, air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP""",
    key="flight_id",
    partitions=4,
)
airlines = app.topic("airlines", schema="carrier STRING NOT NULL, name STRING", key="carrier", compacted=True)
planes = app.topic(
    "planes",
    schema="""tailnum STRING NOT NULL, year INT, type STRING, manufacturer STRING, model STRING,
              engines INT, seats INT, speed INT, engine STRING""",
    key="tailnum",
    compacted=True,
)
weather = app.topic(
    "weather",
    schema="""origin STRING NOT NULL, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE,
              wind_dir INT, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE,
              time_hour TIMESTAMP NOT NULL""",
    key=("origin", "time_hour"),
    compacted=True,
)
airports = app.topic(
    "airports",
    schema="faa STRING NOT NULL, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING",
    key="faa",
    compacted=True,
)


@app.pipeline(flights, airlines.table(), planes.table(), weather.table(), into="flights-enriched", key="flight_id")
def enrich(flights, airlines, planes, weather):
    """Spark DataFrames in, one DataFrame out."""
    flight = flights.select("flight_id", "time_hour", "carrier", "flight", "tailnum", "origin", "dest", "dep_delay")
    airline = airlines.withColumnRenamed("name", "airline")
    plane = planes.select("tailnum", "manufacturer", "model", planes.year.alias("plane_year"))
    hour = weather.select("origin", "time_hour", "temp", "wind_speed", "precip", "visib")
    return (
        flight.join(airline, "carrier", "left")
        .join(plane, "tailnum", "left")
        .join(hour, ["origin", "time_hour"], "left")
    )


def delays(group):
    """The mean, and how many flights have a known delay."""
    return group.agg(avg("dep_delay").alias("mean_dep_delay"), count("dep_delay").alias("departures"))


@app.pipeline(flights, airlines.table(), into="carrier-delays", key="carrier", mode="update")
def carrier_delays(flights, airlines):
    """A row for each carrier that changes with every flight, so the topic is compacted."""
    return delays(flights.groupBy("carrier")).join(airlines, "carrier", "left")


@app.pipeline("flights-enriched", into="manufacturer-delays", key="manufacturer", mode="update")
def manufacturer_delays(enriched):
    """A pipeline on a topic that another one derives."""
    return delays(enriched.where("manufacturer IS NOT NULL").groupBy("manufacturer"))


app.view("carriers", "carrier-delays", ms.KeyValue())
app.view("manufacturers", "manufacturer-delays", ms.KeyValue())
app.view("flights", flights, ms.SQL())
app.view("airports", airports, ms.Search("name", "faa"))
app.view("routes", flights, ms.Graph(source="origin", target="dest"))
