"""MariaDB from the system's mariadb-server package. Run: python -m services.mariadb --help"""
import shutil
import sys
from pathlib import Path

from .base import Instance, cli, me, run

SERVER = "/usr/sbin/mariadbd"


class MariaDB(Instance):
    flavor, section = "mariadb", "mariadbd"

    def install(self):
        if not Path(SERVER).exists():
            raise RuntimeError(f"{SERVER} is missing; tools/setup.sh test installs it")

    def version(self):
        return run([SERVER, "--no-defaults", "--version"], "mariadbd --version").decode().split("Ver ")[1].split("-")[0]

    def usual_cnf(self):
        return {"gtid_domain_id": 0, "gtid_strict_mode": "ON", "log_slave_updates": "ON", "innodb_log_file_size": "48M",
                "innodb_doublewrite": "ON" if self.durable else "OFF"}

    def server_argv(self):
        return [SERVER, f"--defaults-file={self.dir}/my.cnf", f"--user={me()}"]

    def initialize(self):
        self.write_cnf({"log_bin": None})
        self.data.mkdir()
        run(["mariadb-install-db", f"--defaults-file={self.dir}/my.cnf", f"--user={me()}", "--auth-root-authentication-method=normal",
             "--skip-test-db", f"--datadir={self.data}"], "mariadb-install-db")

    def load_time_zones(self):
        if Path("/usr/share/zoneinfo").exists() and shutil.which("mariadb-tzinfo-to-sql"):
            sql = run(["mariadb-tzinfo-to-sql", "/usr/share/zoneinfo"], "mariadb-tzinfo-to-sql")
            run(["mariadb", "--no-defaults", "-uroot", "-S", self.socket, "mysql"], "loading time zones", input=sql)


if __name__ == "__main__":
    sys.exit(cli(MariaDB))
