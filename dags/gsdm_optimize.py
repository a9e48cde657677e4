from airflow.sdk import dag, task

@dag(schedule=None, is_paused_upon_creation=False)
def gsdm_optimize():
    @task
    def hello():
        print("hello")
    hello()
gsdm_optimize()
