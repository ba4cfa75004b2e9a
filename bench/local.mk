# the bench folder
